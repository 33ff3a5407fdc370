"""Provider Nutanix: machines are virtual machines on AHV, made from images of a Prism Central."""
