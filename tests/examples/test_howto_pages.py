"""All other pages: every block runs and prints what it says."""

import pytest

from page_blocks import Block, blocks_to_run, check_block

BLOCKS = blocks_to_run("docs/*.md", "docs/adr/*.md", but="docs/index.md")


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_runs_and_prints_what_it_says(block: Block) -> None:
    check_block(block)
