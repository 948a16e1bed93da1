"""Workers on other hosts: how they are let in, and what passes between their keeper and the trainer."""
