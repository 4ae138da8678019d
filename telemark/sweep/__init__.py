"""Sweeps: lists of runs in virtual time, on all cores or machines; what is done is kept"""
