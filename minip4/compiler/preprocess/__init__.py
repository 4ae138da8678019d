"""Lexer and preprocessor: from the files of a program to its tokens."""
