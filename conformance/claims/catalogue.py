"""All claims, in the order of the papers; last those of other papers."""

from kvassay.conformance.claims import attention, codec, eden, populations, schemes, spectral
from kvassay.conformance.claims.claim import Claim
from kvassay.conformance.claims.question import PaperClaim

PAPERS: tuple[PaperClaim, ...] = (
    *attention.CLAIMS,
    *populations.CLAIMS,
    *spectral.CLAIMS,
    *schemes.CLAIMS,
    *eden.CLAIMS,
)
PAPERS_BY_ID = {claim.id: claim for claim in PAPERS}

CODEC_CLAIMS = tuple(claim for claim in codec.CLAIMS if claim.of_papers)
ALL: dict[str, Claim | PaperClaim] = {
    **{claim.id: claim for claim in CODEC_CLAIMS},
    **PAPERS_BY_ID,
}
