from typing_extensions import disjoint_base

@disjoint_base
class ScoreTables:
    def __init__(self, K: int, D: int, missing: bool) -> None: ...
