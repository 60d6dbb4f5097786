# Filled where the first source that needs torch arrives (lacuna/nn).
