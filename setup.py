from pathlib import Path
from re import search

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = search(
    r'__version__ = "(.+)"', (HERE / "fairseq_normalign" / "version.py").read_text()
).group(1)

setup(
    name="fairseq_normalign",
    version=VERSION,
    description="Norm-based word alignment and attention-head analysis for fairseq Transformers",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    packages=find_packages(include=["fairseq_normalign", "fairseq_normalign.*"]),
    python_requires=">=3.8",
    install_requires=[
        # The fairseq on PyPI cannot be imported on Python 3.11 and later.
        'fairseq-fixed==0.12.3.1; python_version >= "3.11"',
        'fairseq==0.12.2; python_version < "3.11"',
        "torch>=2.0",
        "numpy",
        "sacrebleu",
        "scipy",
        "sentencepiece",
        "matplotlib",
        "tqdm",
    ],
    extras_require={
        "dev": ["hypothesis", "import-linter", "pre-commit", "pytest", "pytest-cov", "ruff"],
    },
    entry_points={"console_scripts": ["normalign = fairseq_normalign.cli.main:main"]},
)
