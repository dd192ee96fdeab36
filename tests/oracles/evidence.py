"""Evidence, opinion, Dempster's reduced combination and the update, as printed, for one sample in plain Python."""


def opinion(variance: list[float], power: float, reference: float = 1.0) -> tuple[list[float], float]:
    """Beliefs and uncertainty: λ = P/σ², e = λ^s, α = e + 1, S = Σα, b = e/S, u = K/S."""
    evidence = [(reference / one) ** power for one in variance]
    strength = sum(e + 1 for e in evidence)
    return [e / strength for e in evidence], len(variance) / strength


def conflict(first: list[float], second: list[float]) -> float:
    """C = Σ_{p≠q} b_p b'_q, the double sum."""
    total = 0.0
    for p in range(len(first)):
        for q in range(len(second)):
            if p != q:
                total += first[p] * second[q]
    return total


def combine(first: list[float], first_u: float, second: list[float], second_u: float) -> tuple[list[float], float]:
    """b_d = (b_d b'_d + b_d u' + b'_d u)/(1 − C) and u = u u'/(1 − C)."""
    rest = 1 - conflict(first, second)
    beliefs = [(b * c + b * second_u + c * first_u) / rest for b, c in zip(first, second, strict=True)]
    return beliefs, first_u * second_u / rest


def weigh(
    weights: str, own: list[float], own_u: float, joint: list[float], joint_u: float
) -> tuple[list[float], list[float]]:
    """The factors of the unimodal and of the joint mean in every dimension."""
    if weights == "source":
        return (
            [2 * b / (b + c) for b, c in zip(own, joint, strict=True)],
            [2 * c / (b + c) for b, c in zip(own, joint, strict=True)],
        )
    both, _ = combine(own, own_u, joint, joint_u)
    return [m * b for m, b in zip(both, own, strict=True)], [m * c for m, c in zip(both, joint, strict=True)]
