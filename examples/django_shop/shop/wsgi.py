import os

from django.core.wsgi import get_wsgi_application

import gantrymq.django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
application = get_wsgi_application()
gantrymq.django.start()  # from now on this process also answers for others that were killed
