"""What a controller needs to run: caches, queues, controllers, manager, leader election, webhooks, clock, steps."""
