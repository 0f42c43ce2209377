"""What runs beside engines and routers."""
