"""Sums over row changes, and facts about transactions: what counting a log keeps of them."""
