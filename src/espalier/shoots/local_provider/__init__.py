"""Extensions of type `local`: shoots on the simulated cloud, like other providers' extensions on theirs."""
