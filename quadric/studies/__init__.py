"""What measures rather than makes: probing, steering curves, figures, sweeps, reports. Only commands import it."""
