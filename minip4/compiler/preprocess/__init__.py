"""Lexer and preprocessor. They convert the files of a program to tokens."""
