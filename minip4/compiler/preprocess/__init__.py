"""Lexer and preprocessor: they convert the files of a program to tokens."""
