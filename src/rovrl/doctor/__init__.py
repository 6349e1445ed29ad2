"""`rovrl doctor`: is a run set up as the method needs?"""
