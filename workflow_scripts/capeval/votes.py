"""From votes to verdicts: the majority, and `unjudged` where there is none."""

from collections import Counter

import pandas as pd

from workflow_scripts.capeval.prompt import VERDICTS


def majority(verdicts: list[str], reasons: list[str | None]) -> tuple[str, int, str | None]:
    """(verdict, number of valid votes, reasoning) of one item; reasoning is that of the first vote for the verdict.

    Votes that are `unjudged` do not count. A tie of the leading verdicts is `unjudged`.
    """
    votes = Counter(verdict for verdict in verdicts if verdict in VERDICTS)
    if not votes:
        return "unjudged", 0, next((reason for reason in reasons if reason), None)
    (first, most), *others = votes.most_common()
    if others and others[0][1] == most:
        tally = ", ".join(f"{votes[verdict]} {verdict}" for verdict in VERDICTS if votes[verdict])
        return "unjudged", votes.total(), f"tie of votes: {tally}"
    return first, votes.total(), reasons[verdicts.index(first)]


def settle_votes(
    items: pd.DataFrame, votes: pd.DataFrame, given: dict[str, tuple[str, str]], judge: str
) -> pd.DataFrame:
    """Table `verdicts` for the benchmark's `items`, in their order.

    `votes` is table `votes`; `given` has the verdict and the reason of every item of images that nobody was asked
    about. Raises KeyError for an item that neither covers.
    """
    ballots: dict[tuple[str, int], tuple[list[str], list[str | None]]] = {}
    reasons = votes["reasoning"].astype(object).where(votes["reasoning"].notna(), None)
    for image_id, index, verdict, reason in zip(
        votes["image_id"], votes["item_index"], votes["verdict"], reasons, strict=True
    ):
        said = ballots.setdefault((image_id, index), ([], []))
        said[0].append(verdict)
        said[1].append(reason)
    rows = []
    for image_id, index in zip(items["image_id"], items["item_index"], strict=True):
        if image_id in given:
            verdict, reason = given[image_id]
            rows.append((verdict, 0, reason))
        else:
            rows.append(majority(*ballots[image_id, index]))
    settled = pd.DataFrame(rows, columns=["verdict", "votes", "reasoning"], index=items.index)
    return items[["image_id", "item_index", "dimension", "tags"]].join(settled).assign(judge=judge)
