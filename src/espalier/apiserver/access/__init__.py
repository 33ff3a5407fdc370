"""Who may do what: authorization, privilege escalation, and admission webhooks."""
