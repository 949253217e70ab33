from craftc._kernels.craft import CostTables

API_VERSION: int
_C_API: object

def craft_costs(tables: CostTables) -> object: ...
