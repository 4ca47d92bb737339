"""Which tables a config file has, each as a model: keys, parsers, defaults, descriptions."""

from scheduld.config.core_tables import EmbeddedTable, LogTable, ScheduldTable
from scheduld.config.keys import RETRY, SCHEDULE, TYPE
from scheduld.config.schedule_tables import KeepHistoryTable, ScheduleTable
from scheduld.config.table import Table
from scheduld.config.type_tables import KeepDeadTable, KeepDoneTable, RetryTable, TypeTable

MODELS: dict[str, type[Table]] = {
    "scheduld": ScheduldTable,
    "embedded": EmbeddedTable,
    "log": LogTable,
    TYPE: TypeTable,
    RETRY: RetryTable,
    f"{TYPE}.keep_done": KeepDoneTable,
    f"{TYPE}.keep_dead": KeepDeadTable,
    SCHEDULE: ScheduleTable,
    f"{SCHEDULE}.keep_history": KeepHistoryTable,
}
"""The model of each table, by its name in the docs."""
