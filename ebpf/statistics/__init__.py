"""Streaming statistics of packets: kept by eBPF in one pass, read and merged window by window"""
