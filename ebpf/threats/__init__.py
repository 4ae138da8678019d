"""Threats, told from statistics that eBPF keeps of packets: alerts, with their evidence"""
