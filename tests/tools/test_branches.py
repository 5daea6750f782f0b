"""Branches that no test takes are listed by package."""

from branches import listing


def file(total: int, *missing: list[int]) -> dict[str, object]:
    summary = {"num_branches": total, "missing_branches": len(missing)}
    return {"summary": summary, "missing_branches": list(missing)}


def test_each_package_names_the_branches_that_no_test_takes() -> None:
    files = {
        "src/awaken/engine/step.py": file(8, [3, 7], [9, -1]),
        "src/awaken/engine/deep/run.py": file(4),
        "src/awaken/codec.py": file(2, [5, 6]),
    }
    assert list(listing(files)) == [
        "codec.py: 1 of 2 branches not taken",
        "  codec.py: 5→6",
        "engine: 2 of 12 branches not taken",
        "  engine/step.py: 3→7, 9→exit",
    ]
