from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from gantrymq import Message
from gantrymq.django import send
from shop.models import Order


@require_POST
def order(request: HttpRequest, name: str) -> HttpResponse:
    Order.objects.create(name=name)
    return HttpResponse("ordered", status=201)


@require_POST
@transaction.atomic
def pay(request: HttpRequest, name: str) -> HttpResponse:
    """The order is paid, and the message is delivered; or neither."""
    if not Order.objects.filter(name=name, status="open").update(status="paid"):
        return HttpResponse("there is no such open order", status=404)
    send(Message("orders-paid", name, keys=[name]))
    if request.GET.get("card") == "declined":
        raise ValueError("the bank declines")  # after the update and the send: both are rolled back
    return HttpResponse("paid")
