"""Pods of simulated nodes that run: as processes of this machine, for images that have a program here.

All other pods stay as simulated as their nodes: they are said to run. Decision 0063 says what this is for and where it
ends; in short, there is no container around a process, only a folder that stands for its `/`.
"""
