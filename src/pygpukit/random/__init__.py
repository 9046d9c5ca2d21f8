"""Random numbers: the same for a seed on every device, and in simulation.

>>> rng = gp.random.default_rng(7)
>>> rng.normal(size=(3, 4))

The functions of this module (rand, randn, normal, ...) are the methods of one RandomState that the
whole process shares; seed() restarts it. New code creates a Generator with default_rng.
"""

from pygpukit._naming import name_all
from pygpukit.random.generator import Generator, default_rng
from pygpukit.random.state import RandomState

_shared = RandomState()

beta = _shared.beta
binomial = _shared.binomial
chisquare = _shared.chisquare
choice = _shared.choice
dirichlet = _shared.dirichlet
exponential = _shared.exponential
f = _shared.f
gamma = _shared.gamma
geometric = _shared.geometric
get_state = _shared.get_state
gumbel = _shared.gumbel
laplace = _shared.laplace
logistic = _shared.logistic
lognormal = _shared.lognormal
multinomial = _shared.multinomial
multivariate_normal = _shared.multivariate_normal
negative_binomial = _shared.negative_binomial
noncentral_chisquare = _shared.noncentral_chisquare
normal = _shared.normal
pareto = _shared.pareto
permutation = _shared.permutation
poisson = _shared.poisson
power = _shared.power
rand = _shared.rand
randint = _shared.randint
randn = _shared.randn
random = _shared.random
random_sample = ranf = sample = _shared.random_sample
rayleigh = _shared.rayleigh
seed = _shared.seed
set_state = _shared.set_state
shuffle = _shared.shuffle
standard_cauchy = _shared.standard_cauchy
standard_exponential = _shared.standard_exponential
standard_gamma = _shared.standard_gamma
standard_normal = _shared.standard_normal
standard_t = _shared.standard_t
triangular = _shared.triangular
uniform = _shared.uniform
wald = _shared.wald
weibull = _shared.weibull

__all__ = [
    "Generator",
    "RandomState",
    "beta",
    "binomial",
    "chisquare",
    "choice",
    "default_rng",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "geometric",
    "get_state",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "noncentral_chisquare",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "power",
    "rand",
    "randint",
    "randn",
    "random",
    "random_sample",
    "ranf",
    "rayleigh",
    "sample",
    "seed",
    "set_state",
    "shuffle",
    "standard_cauchy",
    "standard_exponential",
    "standard_gamma",
    "standard_normal",
    "standard_t",
    "triangular",
    "uniform",
    "wald",
    "weibull",
]

name_all(globals(), __all__)
