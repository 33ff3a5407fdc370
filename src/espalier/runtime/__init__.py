"""Runtime of controllers: caches, queues, controllers, manager, leader election, webhooks, clock, steps."""
