"""Are the outliers of ragged groups cut off from their bulk, and how do they fall on the groups?"""
