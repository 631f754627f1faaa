"""What the commands that serve do: started plainly, they load nothing that reads command lines."""
