"""Documents become a plan: parse, select, plan. Pure: no disk, no network, no clock."""
