"""What must hold whatever the readings: named asserts that tests of the criterion, its stages and the methods share."""
