"""The search by vector as a part of a statement, such as that behind `prepare`.

Valid in every database: one without vectors finds nothing. See migrations/0007_embeddings.sql for
what is compared and what bounds it.
"""

from typing import Final

SIMILAR_LEAVES: Final = 16


def similar_leaves(*, vector: str, model: str = "null", up_to: str, also: str = "'{}'") -> str:
    """For a `from`: rows of (branch_uuid, from_turn, to_turn, turn_no, similarity), best first.

    The statement's $1 is the tenant, $2 the branch. The arguments are expressions, SQL of the
    caller's own and no text from outside: `vector` is the query's, without which there are no rows;
    `model` says whose vectors, by default those of the newest leaf that has some of this size; no
    leaf ends beyond the turn `up_to`; `also` is an integer[] of `to_turn`s whose leaves are wanted
    besides the 16 best. `similarity` is the cosine with the leaf's nearest turn, `turn_no`.
    """
    return (
        "durable_context.similar_leaves("
        f"$1, $2, {vector}::real[], {model}::text, {up_to}, {SIMILAR_LEAVES}, {also}::integer[])"
    )
