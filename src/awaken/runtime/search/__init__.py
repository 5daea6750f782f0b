"""Searching: what is indexed of a commit, the indexer, and how a search is answered."""
