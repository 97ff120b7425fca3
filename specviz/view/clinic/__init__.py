"""A case of the clinic, played: the symptom first, evidence on demand, then the fault and the next step, and marks."""

from specviz.view.clinic.exhibits import Exhibit
from specviz.view.clinic.played import HEALTHY, ClinicMarks, PlayedCase, case_folder, case_names, case_run, read_case

__all__ = ["HEALTHY", "ClinicMarks", "Exhibit", "PlayedCase", "case_folder", "case_names", "case_run", "read_case"]
