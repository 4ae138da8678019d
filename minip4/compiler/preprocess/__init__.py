"""Lexer and preprocessor, which convert the files of a program to tokens."""
