"""python manage.py test: no server has to run."""

from django.test import TestCase

from gantrymq import PushConsumer
from gantrymq.django.test import LocalClusterTestCase, outbox
from shop.management.commands.ship import ship
from shop.models import Order


class PaymentTests(TestCase):
    """Nothing is sent; ``outbox`` has what would be."""

    def test_a_paid_order_is_announced(self) -> None:
        Order.objects.create(name="o-1")
        self.assertEqual(self.client.post("/orders/o-1/pay").content, b"paid")
        self.assertEqual([message.body for message in outbox], [b"o-1"])

    def test_nobody_hears_of_a_declined_payment(self) -> None:
        Order.objects.create(name="o-1")
        with self.assertRaises(ValueError):
            self.client.post("/orders/o-1/pay?card=declined")
        self.assertEqual((len(outbox), Order.objects.get().status), (0, "open"))


class ShippingTests(LocalClusterTestCase):
    """A broker in this process, and transactions that really commit."""

    def test_a_paid_order_is_shipped(self) -> None:
        self.gantry.create_topic("orders-paid")
        Order.objects.create(name="o-1")
        with PushConsumer("shipping", name_servers=self.gantry.name_servers, listener=ship).subscribe("orders-paid"):
            self.client.post("/orders/o-1/pay")
            self.gantry.wait_until(lambda: Order.objects.get().status == "shipped")
