from imagehost_client import Client

with Client() as client:
    webhook = client.webhooks.create("https://93.184.215.14/hook", events=["image.uploaded"])
    print(webhook.secret.startswith("whsec_"))  # returned once: store it

    client.webhooks.update(webhook, events=[], description="All events")
    delivery = client.webhooks.test(webhook)
    for one in client.webhooks.deliveries(webhook):
        print(one.event, one.id == delivery.id)
    client.webhooks.retry(webhook, delivery)

    print(client.webhooks.rotate_secret(webhook).secret != webhook.secret)
    client.webhooks.delete(webhook)
# True
# webhook.test True
# True
