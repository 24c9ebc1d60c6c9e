class Paper: pass
