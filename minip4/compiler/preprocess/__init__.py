"""Lexer and preprocessor: convert the files of a program to its tokens."""
