"""Values as text: amounts, times and versions, and what may be shown of untrusted text."""
