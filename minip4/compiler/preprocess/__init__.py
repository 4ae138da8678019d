"""From the files of a program to its tokens: lexer and preprocessor."""
