"""Control: pressure loops on cable lengths, compliance for teaching, and the store of taught postures."""
