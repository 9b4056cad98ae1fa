"""Object stores: kept beginnings of objects, advice about errors."""
