"""The views of the tests."""

from django.http import HttpRequest, HttpResponse

from django.urls import path
from gantrymq import Message
from gantrymq.django import send
from tests.django.orders.models import Order


def pay(request: HttpRequest, name: str) -> HttpResponse:
    Order.objects.create(name=name, status="paid")
    send(Message("orders", name))
    if "fail" in request.GET:
        raise ValueError("the view fails behind its send")
    return HttpResponse("paid")


urlpatterns = [path("pay/<name>", pay)]
