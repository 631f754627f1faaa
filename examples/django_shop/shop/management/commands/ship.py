import signal

from django.conf import settings
from django.core.management.base import BaseCommand

from gantrymq import MessageView, PushConsumer
from gantrymq.django import Inbox
from shop.models import Order

inbox = Inbox("shipping")


@inbox.once
def ship(message: MessageView) -> None:
    Order.objects.filter(name=message.body.decode()).update(status="shipped")


class Command(BaseCommand):
    help = "Ships what was paid, each order once, however often its message comes."

    def handle(self, **options: object) -> None:
        name_servers = settings.GANTRYMQ["NAME_SERVERS"]
        with PushConsumer("shipping", name_servers=name_servers, listener=ship).subscribe("orders-paid"):
            signal.pause()
