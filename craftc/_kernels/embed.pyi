from craftc._kernels.craft import Tables

API_VERSION: int
_C_API: object

def craft_costs(tables: Tables) -> object: ...
