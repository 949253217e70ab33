"""An application that PyInstaller freezes: it fits, saves, loads and reports, without importing craftc's
modules by name.
"""

import sys
from pathlib import Path

import craftc

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    heart = craftc.datasets.load_heart().data
    model = craftc.CRAFT(random_state=0, n_init=2).fit(heart)
    print(model.summary().to_string())
    craftc.save_model(model, folder / "heart.craftc")
    again = craftc.load_model(folder / "heart.craftc")
    print("equal", bool((again.predict(heart) == model.labels_).all()))
    craftc.report.write(model, heart, folder / "report.html")
    craftc.show_versions()
