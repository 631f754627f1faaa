"""A Celery task that starts if, and only if, the row committed: ``celery -A tasks worker``."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError

app = Celery("tasks", broker=os.environ.get("CELERY_BROKER", "redis://127.0.0.1"))
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True)  # a worker that dies gives its task back
engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///shop.db"))


@app.task(bind=True, name="ship")
def ship(task: Any, order: str) -> str:
    """May be called twice with one id (see ``handover.py``). The row with the id makes the effect happen once."""
    try:
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO tasks_done VALUES (:id)"), {"id": task.request.id})
            connection.execute(text("INSERT INTO parcels VALUES (:order)"), {"order": order})
    except IntegrityError:
        return "was done already"
    return "shipped"
