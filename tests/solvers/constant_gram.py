"""A Gram matrix with a penalised bias, K = AA' + constant, written out: what linear solvers read of one."""

import numpy as np

import dualgap


class WithConstant:
    """A factored Gram plus a constant; `factor` stays A."""

    def __init__(self, A, constant):
        self.linear, self.constant = dualgap.factored_gram(A), float(constant)
        self.n, self.dtype, self.psd, self.evaluations = self.linear.n, self.linear.dtype, True, 0
        self.factor = self.linear.factor

    def diag(self):
        return self.linear.diag() + self.constant

    def block(self, rows, columns):
        return self.linear.block(rows, columns) + self.dtype.type(self.constant)

    def rows(self, points):
        return self.linear.rows(points) + self.dtype.type(self.constant)

    def accumulate(self, out, points, delta, rows=None):
        self.linear.accumulate(out, points, delta, rows)
        out += self.constant * np.sum(delta)

    def exact(self, weights, rows=None):
        return self.linear.exact(weights, rows) + self.constant * np.sum(weights)
