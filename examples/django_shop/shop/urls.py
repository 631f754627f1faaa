from django.urls import path
from shop import views

urlpatterns = [path("orders/<name>", views.order), path("orders/<name>/pay", views.pay)]
