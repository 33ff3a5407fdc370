"""Extensions of type `local`: shoots on the simulated cloud, as other providers' extensions have them on theirs."""
